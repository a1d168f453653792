"""RecordIO files: chunks of records, compressed with Snappy."""
