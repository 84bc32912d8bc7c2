"""Commands about subscriptions: `millstream subscribe`, `millstream worker`, `millstream keys`."""
