"""Reading: what Spark plans on the driver and reads on executors."""
