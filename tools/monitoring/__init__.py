"""Makes the Grafana dashboard and the Prometheus alert rules in deploy/monitoring from the metrics of the server."""
