"""Shares a budget among sources: prices, timetables and the plan of the week."""
