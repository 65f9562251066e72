"""The notification-rule language: texts are parsed, checked as one declaration, and printed back."""

from __future__ import annotations

from proxyd.core.language.checking.checker import Checked, check, check_parsed
from proxyd.core.language.checking.classes import BUILT_IN
from proxyd.core.language.checking.counting import (
    MEANING,
    counters_to_restart,
    counting_of,
    rule_counting,
    what_changed,
)
from proxyd.core.language.checking.functions import FUNCTIONS, Family, Function
from proxyd.core.language.checking.watches import DEFAULT_PROFILE, expand, find_watch, with_options_of
from proxyd.core.language.source_addresses import WrittenAddress, lines_of, watch_of, written_address, written_addresses
from proxyd.core.language.source_lists import Listed, Merged, SourceList, merge_listing, opml, read_listing
from proxyd.core.language.syntax.address_lists import is_list, list_names
from proxyd.core.language.syntax.check_context import CheckSettings
from proxyd.core.language.syntax.expression_printer import (
    format_after,
    format_expression,
    format_select,
    format_trigger,
)
from proxyd.core.language.syntax.nodes import (
    Broken,
    CreateDomain,
    CreateProfile,
    CreateSource,
    CreateSources,
    DropStatement,
    InsertNotification,
    Located,
    Parsed,
    SourceText,
    Statement,
    StatementKind,
    Watch,
    kind_of_statement,
)
from proxyd.core.language.syntax.parser import (
    MAX_FILE_BYTES,
    MAX_SENT_BYTES,
    MemberReader,
    parse,
    what_is_unfit,
    what_lacks,
)
from proxyd.core.language.syntax.statement_syntax import format_parsed, format_statements
from proxyd.core.language.syntax.token_reader import MAX_STATEMENT_BYTES
from proxyd.core.language.syntax.value_reader import During, channel_scheme, parse_during
from proxyd.core.language.syntax.web_addresses import address_to_watch, plain_address
from proxyd.core.language.syntax.words import did_you_mean, no_such, no_such_source

__all__ = [
    "BUILT_IN",
    "DEFAULT_PROFILE",
    "FUNCTIONS",
    "MAX_FILE_BYTES",
    "MAX_SENT_BYTES",
    "MAX_STATEMENT_BYTES",
    "MEANING",
    "Broken",
    "CheckSettings",
    "Checked",
    "CreateDomain",
    "CreateProfile",
    "CreateSource",
    "CreateSources",
    "DropStatement",
    "During",
    "Family",
    "Function",
    "InsertNotification",
    "Listed",
    "Located",
    "MemberReader",
    "Merged",
    "Parsed",
    "SourceList",
    "SourceText",
    "Statement",
    "StatementKind",
    "Watch",
    "WrittenAddress",
    "address_to_watch",
    "channel_scheme",
    "check",
    "check_parsed",
    "counters_to_restart",
    "counting_of",
    "did_you_mean",
    "expand",
    "find_watch",
    "format_after",
    "format_expression",
    "format_parsed",
    "format_select",
    "format_statements",
    "format_trigger",
    "is_list",
    "kind_of_statement",
    "lines_of",
    "list_names",
    "merge_listing",
    "no_such",
    "no_such_source",
    "opml",
    "parse",
    "parse_during",
    "plain_address",
    "read_listing",
    "rule_counting",
    "watch_of",
    "what_changed",
    "what_is_unfit",
    "what_lacks",
    "with_options_of",
    "written_address",
    "written_addresses",
]
