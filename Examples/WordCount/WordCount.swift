@main
struct WordCount { static func main() {} }
