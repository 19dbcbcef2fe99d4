/* The simple records of route tables, for records.pyx. */
#define ROUTERD_UNITY

#include "core/rmr/tables/simple_records.c"
#include "core/rmr/tables/record_names.c"
