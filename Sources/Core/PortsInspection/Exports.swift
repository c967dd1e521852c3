// A program that asks about ports finds them by their names.
@_exported import Ports
