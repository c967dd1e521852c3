// The signals that a program handles in its loop.
@_exported import var Glibc.SIGHUP
@_exported import var Glibc.SIGINT
@_exported import var Glibc.SIGQUIT
@_exported import var Glibc.SIGTERM
@_exported import var Glibc.SIGUSR1
@_exported import var Glibc.SIGUSR2
