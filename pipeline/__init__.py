"""The data pipeline: analyses the flow log on Spark, and plans routes from it.

The folder `tables` has pure functions from data frames to data frames; `flow_log` reads, `output` writes. Of the
router's other packages the pipeline imports only the schema of the flow log (`shm.contract.flow_log.schema`).
"""
