"""The flow log as it is read: which files to read, how they are kept, and their records in Spark."""
