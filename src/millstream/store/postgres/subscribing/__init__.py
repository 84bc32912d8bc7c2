"""Subscriptions that servers share: any of them answers for them, one at a time delivers.

        changes    what happened to streams, recorded with it while there are subscriptions
        host       what a round offers to the subscriptions of its table: streams, tails, rows
        tables     their rows, their version, and the lease of the server that delivers
        needs      what a request must find prepared
        rounds     a request is decided under one lock, on what is in the database then
        offered    requests, each as a round; what is due by time

The roster of subscriptions is that of every store (`store.subscriptions`). It is in the memory of each
server, and is loaded again when another one has changed it: the version tells.

        an append            is recorded in the same transaction, by whichever server makes it
        the next round       takes what is recorded, wakes, and answers requests on what is then so;
                             events of wake streams are appended in the same transaction
        webhooks             are sent by the server that has the lease. It renews the lease with each round.
                             Another one takes it when it has ended, and goes on with what is not delivered;
                             who has lost it finds that out before anything is recorded
"""
