// A program that makes a port schedules it in a loop.
@_exported import RunLoops
