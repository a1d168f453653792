"""`pd-v2 master`: the server of a ledger, and what its journal says."""

import argparse
import os
import signal
import sqlite3
import threading

from pd_v2.master.journal import describe, read_journal
from pd_v2.master.ledger import FAILURE_LIMIT, LEASE_SECONDS, TASK_SECONDS, Ledger
from pd_v2.master.server import MasterServer
from pd_v2.master.token import TOKEN, TOKEN_FILE, read_token, require_token
from pd_v2.program_name import print_error, program_name


def main(argv):
    """Serve until SIGINT or SIGTERM, or print a journal; return 1 after an error."""
    options = _options(argv)
    try:
        if options.journal is not None:
            return _print_journal(options.journal)
        return _serve(options)
    except (OSError, ValueError, sqlite3.Error) as error:
        print_error(f"{options.journal or options.state}: {error}", "master")
        return 1


def _options(argv):
    parser = argparse.ArgumentParser(
        prog=program_name("master"),
        description="Hand the chunks of RecordIO files to the workers of a training, and remember "
        "who has read which. Workers find the master by PD_MASTER=HOST:PORT, and show the token of "
        f"{TOKEN} or of the file {TOKEN_FILE}, which an address beyond this machine needs.",
        allow_abbrev=False,  # a token is no argument
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--listen", metavar="HOST:PORT", help="serve at this address; port 0: any")
    what.add_argument("--journal", metavar="FILE", help="print what each pass in FILE saw")
    parser.add_argument("--state", metavar="FILE", help="the ledger; a file that exists goes on")
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help=f"a file with the token (default: that of {TOKEN_FILE}, or {TOKEN} itself)",
    )
    parser.add_argument(
        "--lease",
        metavar="SECONDS",
        type=float,
        default=LEASE_SECONDS,
        help="hand a chunk to another worker after so many seconds without a sign of life "
        f"(by default {LEASE_SECONDS:g})",
    )
    parser.add_argument(
        "--task",
        metavar="SECONDS",
        type=float,
        default=TASK_SECONDS,
        help=f"and after so many seconds in any case (by default {TASK_SECONDS:g})",
    )
    parser.add_argument(
        "--failures",
        metavar="N",
        type=int,
        default=FAILURE_LIMIT,
        help=f"drop a chunk that could not be read N times (by default {FAILURE_LIMIT})",
    )
    parser.add_argument(
        "--no-wait",
        action="store_true",
        help="do not let workers wait for each other at the end of a pass: for those that take "
        "their steps together",
    )
    parser.add_argument(
        "--with-parent", action="store_true", help="end when the standard input is closed"
    )
    options = parser.parse_args(argv)
    if options.listen is not None and options.state is None:
        parser.error("--listen needs --state FILE")
    for name in ("lease", "task", "failures"):
        if not getattr(options, name) > 0:
            parser.error(f"--{name} must be above 0, got {getattr(options, name)}")
    return options


def _serve(options):
    host, _, port = options.listen.rpartition(":")
    if not port.isdecimal():
        raise ValueError(f"{options.listen!r} is not HOST:PORT")
    token = read_token(options.token_file)
    require_token(host or "127.0.0.1", token)
    ledger = Ledger(
        options.state, options.failures, options.lease, options.task, not options.no_wait
    )
    with MasterServer((host or "127.0.0.1", int(port)), ledger, token) as server:
        ledger.renew_all()
        print(f"master at {server.address}", flush=True)
        for number in (signal.SIGINT, signal.SIGTERM):
            # shutdown() waits for the thread that is interrupted here
            signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
        if options.with_parent:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
            threading.Thread(target=_exit_with_parent, daemon=True).start()
        server.serve_forever(poll_interval=0.1)
    ledger.close()
    return 0


def _exit_with_parent():
    while os.read(0, 1):
        pass
    os._exit(0)  # the ledger needs no farewell


def _print_journal(path):
    for one in read_journal(path):
        for line in describe(one):
            print(line)
    return 0
