extension UnsafeRawBufferPointer {
    /// Reads a little-endian number, which need not be aligned.
    func little<Number: FixedWidthInteger & BitwiseCopyable>(at offset: Int) -> Number {
        Number(littleEndian: loadUnaligned(fromByteOffset: offset, as: Number.self))
    }
}

extension UnsafeMutableRawBufferPointer {
    /// Writes a little-endian number.
    func setLittle<Number: FixedWidthInteger & BitwiseCopyable>(_ number: Number, at offset: Int) {
        storeBytes(of: number.littleEndian, toByteOffset: offset, as: Number.self)
    }
}
