"""The models of requests and responses, from which the OpenAPI document is made: each is named where it is written."""

from proxyd.api.wire.base_models import *
from proxyd.api.wire.delivery_models import *
from proxyd.api.wire.profile_models import *
from proxyd.api.wire.reading_models import *
from proxyd.api.wire.site_models import *
from proxyd.api.wire.statement_models import *
