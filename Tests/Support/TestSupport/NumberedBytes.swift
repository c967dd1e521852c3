/// The bytes of a numbered message: of many sizes, one in a hundred of 4 MiB, and one of more than a ring's ring takes.
package func numberedBytes(_ number: UInt32) -> [UInt8] {
    let size =
        switch number {
        case 150: 20 << 20
        case let number where number % 100 == 99: 4 << 20
        default: Int(number) * 7919 % 3000
        }
    return [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: size)
}
