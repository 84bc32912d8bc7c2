CREATE MATERIALIZED VIEW by_sensor AS
SELECT sensor, count(*) AS readings, max(celsius) AS hottest
FROM readings
GROUP BY sensor
