/* The simple records of route tables, for records.pyx. */
#define ROUTERD_UNITY

#include "core/rmr/plain_records.c"
#include "core/rmr/record_names.c"
