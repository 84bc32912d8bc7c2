"""Spark is for who asks for it: the client alone must not need it."""

import subprocess
import sys


def test_the_client_does_not_import_spark() -> None:
    code = "import sys, millstream, millstream.aio; print({'pyspark', 'pyarrow', 'numpy'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.strip() == "set()"


def test_spark_finds_the_source_by_the_name_of_its_module() -> None:
    code = "from pyspark_durable_streams import DefaultSource; print(DefaultSource.name())"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.strip() == "durable-streams"
