"""`millstream pipeline`: Spark jobs between streams and tables, a file for each verb."""
