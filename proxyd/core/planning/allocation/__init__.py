"""How a budget is shared among sources: prices, timetables and the plan of the week."""
