import CBOR
import FoundationEssentials

/// Decoded at once, because `Data` itself decodes byte by byte.
extension Data: CBORByteString {
    package init(byteString: UnsafeRawBufferPointer) { self.init(byteString) }
}
