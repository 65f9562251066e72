"""Runs the migrations on the connection that proxyd hands over; there is no other way in."""

from alembic import context

from proxyd.store.databases.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
context.run_migrations()
