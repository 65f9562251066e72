"""The client's types: committed as they are made of the OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from datamodel_code_generator import InputFileType, LiteralType, PythonVersion, generate
from datamodel_code_generator.enums import DataModelType
from datamodel_code_generator.format import Formatter

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "openapi.json"
HEAD = '"""What the REST API answers, made of docs/openapi.json by tests/golden/test_types_of_the_client.py."""\n'
LIST = re.compile(r"class (?:Items|Page)\w+\(TypedDict\):\n    items: list")
"""Envelopes of lists, which the client opens."""


def made() -> str:
    """Return the types of the document as a module."""
    types = generate(
        DOCUMENT,
        input_file_type=InputFileType.OpenAPI,
        output_model_type=DataModelType.TypingTypedDict,
        target_python_version=PythonVersion.PY_311,
        custom_file_header=HEAD,
        enum_field_as_literal=LiteralType.All,
        use_schema_description=True,
        use_single_line_docstring=True,
        use_closed_typed_dict=False,
        use_tuple_for_closed_arrays=True,
        formatters=[Formatter.RUFF_FORMAT],
        settings_path=ROOT,
    )
    kept = (each for each in f"{types}\n".split("\n\n\n") if not LIST.match(each))
    return "\n\n\n".join(kept).rstrip() + "\n"


def test_they_are_committed_as_they_are_made(golden: Callable[[Path, str], None]) -> None:
    golden(ROOT / "proxyd" / "client" / "types.py", made())
