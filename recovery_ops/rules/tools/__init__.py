"""The rules of tool calls: one result for each, three readers, whole transcripts."""
