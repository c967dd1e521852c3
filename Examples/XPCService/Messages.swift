/// A message of the client.
struct CalculationRequest: Codable {
    var firstNumber: Int
    var secondNumber: Int
    var wantsProgress = false
}

/// The service's reply.
struct CalculationResponse: Codable {
    var result: Int
}

/// A message that the service sends by itself.
struct Progress: Codable {
    var text: String
}
