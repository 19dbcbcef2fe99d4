"""The data pipeline: the flow log analysed on Spark, and fed back as routing.

Jobs are pure functions from data frames to data frames; `pipeline.storage` alone reads and writes. Of ours
only the schema of the flow log is imported (`shm.contract.flow`).
"""
