extension ClosedRange {
    /// The sentence of an error for a value that is not in the range.
    package func refusal(of value: String, as name: String) -> String {
        "\(name) cannot be \(value): choose \(lowerBound) to \(upperBound)"
    }
}
