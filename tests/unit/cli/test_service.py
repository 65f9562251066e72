from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from proxyd.cli.demo import make_settings
from proxyd.cli.service import leaves, proxyd_errors
from proxyd.core.errors import ConfigError, ProxydError, StoreError

FULL = StoreError("the disk is full")
NESTED = ExceptionGroup("outer", [ExceptionGroup("inner", [StoreError("the disk is full")]), FULL])


def test_the_same_error_of_several_tasks_is_told_once() -> None:
    assert [str(error) for error in leaves(cast("ExceptionGroup[ProxydError]", NESTED))] == ["the disk is full"]


def test_an_error_out_of_task_groups_comes_by_itself() -> None:
    with pytest.raises(StoreError, match="the disk is full"), proxyd_errors():
        raise NESTED


def test_a_single_error_passes() -> None:
    with pytest.raises(ProxydError, match="taken"), proxyd_errors():
        raise ConfigError(["listen: taken"])


def test_bugs_pass_as_they_are() -> None:
    with pytest.raises(ExceptionGroup, match="tasks"), proxyd_errors():
        raise ExceptionGroup("tasks", [ZeroDivisionError()])


def test_the_settings_of_the_demo_are_settings(tmp_path: Path) -> None:
    assert make_settings(tmp_path).cycle < 60.0
