"""Side by side measurements: millstream, the public reference server, and nginx where it compares.

One rule makes the numbers worth printing: contenders alternate within one run, and what is compared
is the ratio of neighbours in time. Absolute numbers change with the machine and its mood; ratios less.

    python -m bench                     everything, about five minutes
    python -m bench --quick             everything, under one
    python -m bench append-64 get-64    what you are working on

Studies are about ourselves only, and each has a table of its own:

    python -m bench streams --streams 10,1000,100000
    python -m bench expiring
"""
