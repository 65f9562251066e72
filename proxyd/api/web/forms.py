"""Forms as our pages send them."""

from __future__ import annotations

from urllib.parse import parse_qsl

from aiohttp import web

from proxyd.api.problems import BadRequestError

_MEDIA_TYPE = "application/x-www-form-urlencoded"
_MOST_FIELDS = 100


async def read_form(request: web.Request) -> dict[str, str]:
    """Return the fields of a form, what is no UTF-8 in them replaced; raises ``BadRequestError`` for what is none.

    Pages send no files, so that none are taken.
    """
    if request.content_type != _MEDIA_TYPE:
        raise BadRequestError(f"a form of these pages is sent as {_MEDIA_TYPE}")
    try:
        text = (await request.read()).decode("utf-8")
        return dict(parse_qsl(text, keep_blank_values=True, errors="replace", max_num_fields=_MOST_FIELDS))
    except ValueError as error:
        raise BadRequestError("the form cannot be read; go back, reload the page and try again") from error
