"""Where no networks may be made, cables cannot be pulled; how long recovery takes is measured only alone."""

import pytest

from tests.cluster import support
from tests.cluster.networks import is_allowed

collect_ignore = [] if is_allowed() else ["test_cut_off.py"]


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.alone)], ids=["at last", "within two leases"])
def measured(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test twice: beside others, and alone, against the clock."""
    monkeypatch.setattr(support, "is_measured", request.param)
