"""A delivery costs the same however many rows the outbox holds (``benchmarks/outbox.py``)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import PostgresServer

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "outbox.py"


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.timeout(900)
def test_with_a_million_delivered_rows_thousands_are_delivered_to_many_and_hundreds_to_one(
    postgresql: PostgresServer,
) -> None:
    command = [sys.executable, str(BENCHMARK), "--json", "--postgresql", postgresql.create()]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    for line in json.loads(ended.stdout):
        assert line["per_s"] >= (1000.0 if "receivers: 100" in line["what"] else 200.0), line
