"""The sales of each day as a DAG of Airflow, which runs the pipeline, and runs it again where it stopped.

Airflow decides when and where a pipeline runs, and Craton what runs in it: one task of Airflow is one run. With a store that is served
(``craton store serve``, and ``CRATON_STORE`` with its address), a task that is tried again starts with the tables that the first one made.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

with DAG(
    "sales",
    schedule="@daily",
    start_date=datetime(2024, 5, 1),
    catchup=False,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=10)},
) as dag:
    BashOperator(
        task_id="report",
        bash_command="python -m craton run sales.py --quiet --param day={{ ds }}",
        cwd="{{ var.value.pipelines }}",
        env={"CRATON_STORE": "{{ var.value.craton_store }}"},
        append_env=True,
    )
