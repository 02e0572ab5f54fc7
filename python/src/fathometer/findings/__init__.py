"""What happened and what to do: events and statistics joined into statements with evidence and confidence."""
