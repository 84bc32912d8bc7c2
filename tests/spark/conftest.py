"""One Spark for all tests: starting it takes seconds. Skipped without Java."""

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from millstream.spark.sessions import local_session
from python_client.conftest import reference
from running import Server, millstream
from spark.queries import Streams

TEST_TIMEOUT_S = 300


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spark's own Python leaves sockets to the garbage collector, and a busy machine starts it slowly."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(TEST_TIMEOUT_S))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java: apt-get install openjdk-17-jre-headless")
    folder = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "1g",
    }
    session = local_session("tests", cores="2", settings=settings)
    yield session
    session.stop()


@pytest.fixture(scope="package")
def server() -> Iterator[Server]:
    with millstream() as server:
        yield server


@pytest.fixture(scope="package")
def reference_server() -> Iterator[Server]:
    with reference() as server:
        yield server


@pytest.fixture
def streams(spark: SparkSession, server: Server) -> Streams:
    """A folder of its own on our server, and Spark to read it with."""
    return Streams(spark, server.url, f"spark/{uuid.uuid4()}")


@pytest.fixture
def reference_streams(spark: SparkSession, reference_server: Server) -> Streams:
    return Streams(spark, f"{reference_server.url}/v1/stream", str(uuid.uuid4()))
