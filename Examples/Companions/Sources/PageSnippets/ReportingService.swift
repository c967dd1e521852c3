import PortsMetrics
import ServiceLifecycle

extension PortMetricsReporter: @retroactive Service {}
