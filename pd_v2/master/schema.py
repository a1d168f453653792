"""The tables of a ledger."""

# A task of a dataset is one chunk of a file. `progress` has the state of each task in each pass
# that was entered, with its last lease. `journal` has all leases, which have no outcome until they
# end: done, expired, released, failed (with an error); restored or rewound by a worker that goes on
# from a checkpoint. `refused`: when the worker said that it is done, after another one had got it.
# Times are seconds since 1970. `process` is one run of a worker's program.
SCHEMA = """
CREATE TABLE IF NOT EXISTS datasets (
    dataset INTEGER PRIMARY KEY, job TEXT, patterns TEXT, files TEXT, UNIQUE (job, patterns));
CREATE TABLE IF NOT EXISTS tasks (
    dataset INTEGER, task INTEGER, file TEXT, offset INTEGER,
    PRIMARY KEY (dataset, task)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS passes (
    dataset INTEGER, pass INTEGER, PRIMARY KEY (dataset, pass)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS progress (
    dataset INTEGER, pass INTEGER, task INTEGER, state TEXT, failures INTEGER, lease INTEGER,
    PRIMARY KEY (dataset, pass, task)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_state ON progress (dataset, state, pass, failures, task);
CREATE INDEX IF NOT EXISTS by_lease ON progress (lease);
CREATE TABLE IF NOT EXISTS journal (
    lease INTEGER PRIMARY KEY AUTOINCREMENT, dataset INTEGER, pass INTEGER, task INTEGER,
    worker TEXT, process TEXT, leased REAL, renewed REAL, ended REAL, outcome TEXT,
    records INTEGER, error TEXT, refused REAL);
CREATE INDEX IF NOT EXISTS held ON journal (dataset, pass) WHERE outcome IS NULL;
CREATE INDEX IF NOT EXISTS of_task ON journal (dataset, pass, task);
CREATE TABLE IF NOT EXISTS savers (job TEXT PRIMARY KEY, trainer TEXT, until REAL);
"""
