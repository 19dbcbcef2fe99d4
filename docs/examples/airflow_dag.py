"""Results of the flow log each hour, checked, and a report each morning: a DAG for Airflow 3.

Copy it into the folder of DAGs. The worker needs routerd with its extra `pipeline`, Java, and the two directories.
"""

from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

LOG = "/var/lib/routerd/flows"
RESULTS = "/var/lib/routerd/results"

# A run computes what is new since the last one, whenever that was: there is nothing to catch up on. No two overlap.
COMMON = {"start_date": datetime(2026, 1, 1), "catchup": False, "max_active_runs": 1}

with DAG("routerd_results", schedule="5 * * * *", **COMMON):
    compute = BashOperator(
        task_id="run",
        bash_command=f"routerd pipeline run --input {LOG} --output {RESULTS}",
        retries=2,
        retry_delay=timedelta(minutes=5),
    )
    # The status says what is wrong: 10 is the schema, 11 totals, 12 gaps, 13 an old log. To try again changes nothing.
    check = BashOperator(
        task_id="check", bash_command=f"routerd pipeline check --results {RESULTS} --max-age 2", retries=0
    )
    compute >> check

with DAG("routerd_report", schedule="30 5 * * *", **COMMON):
    BashOperator(task_id="report", bash_command=f"routerd pipeline report --results {RESULTS}")
