"""Update traces and models that generate them."""
