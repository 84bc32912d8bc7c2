"""Side by side measurements: millstream, the reference server, Electric's, and nginx where it compares.

One rule makes the numbers worth printing: contenders alternate within one run, and what is compared
is the ratio of neighbours in time. Absolute numbers change with the machine and its mood; ratios less.

    python -m bench                     everything, about half an hour
    python -m bench --quick             everything, some minutes
    python -m bench synced-64 head      what you are working on
    python -m bench.readme              the rows of the README, and writes its table
    python -m bench.peers               beside the fastest, with bounds, a quarter of an hour
    python -m bench.in_process          what a request costs in Python, also beside another checkout

Studies are about ourselves only, and each has a table of its own:

    python -m bench streams --streams 10,1000,100000
    python -m bench expiring
"""
