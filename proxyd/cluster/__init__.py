"""Several machines: what exists because there is more than one process. A single machine imports none of it."""
