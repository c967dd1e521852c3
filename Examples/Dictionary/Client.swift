import TypedPorts

func ask() async throws {
    let dictionary = RequestClient("com.example.dictionary")
    print(try await dictionary.request(Lookup(word: "port"), timeout: .seconds(5)))
    do {
        _ = try await dictionary.request(Lookup(word: "prot"))
    } catch Lookup.Failure.unknownWord(let word) {
        print("nobody knows \(word)")
    }
    for try await word in dictionary.stream(Words(prefix: "p")) { print(word) }
}
