#if SD_BUS
    import CSystemd
    import Glibc

    /// One end of a connection of sd-bus. A message is a number and an array of bytes.
    struct BusConnection {
        private let bus: OpaquePointer

        init(_ socket: Int32, isServer: Bool) throws {
            var bus: OpaquePointer?
            var id = sd_id128_t()
            try Self.check("sd_bus_new", sd_bus_new(&bus))
            guard let bus else { throw BenchError.noChild }
            try Self.check("sd_bus_set_fd", sd_bus_set_fd(bus, socket, socket))
            if isServer {
                try Self.check("sd_id128_randomize", sd_id128_randomize(&id))
                try Self.check("sd_bus_set_server", sd_bus_set_server(bus, 1, id))
            }
            try Self.check("sd_bus_start", sd_bus_start(bus))
            self.bus = bus
        }

        /// Has the callback take the other end's calls.
        func serve(_ context: UnsafeMutableRawPointer, _ take: sd_bus_message_handler_t) throws {
            try Self.check("sd_bus_add_object", sd_bus_add_object(bus, nil, "/bench", take, context))
        }

        /// Does what there is to do, or waits until there is something.
        func process() throws {
            if try Self.check("sd_bus_process", sd_bus_process(bus, nil)) == 0 {
                try Self.check("sd_bus_wait", sd_bus_wait(bus, .max))
            }
        }

        /// Sends a call that has no reply.
        func send(_ number: UInt32, _ payload: [UInt8]) throws {
            let call = try payload.withUnsafeBytes { try makeCall(number, $0) }
            defer { sd_bus_message_unref(call) }
            try Self.check("sd_bus_message_set_expect_reply", sd_bus_message_set_expect_reply(call, 0))
            try Self.check("sd_bus_send", sd_bus_send(bus, call, nil))
            // Without a flush, what the socket has no room for would wait in memory.
            var queued: UInt64 = 0
            try Self.check("sd_bus_get_n_queued_write", sd_bus_get_n_queued_write(bus, &queued))
            if queued >= queueLimit { try Self.check("sd_bus_flush", sd_bus_flush(bus)) }
        }

        /// Sends a call, and has the callback take the reply.
        func ask(
            _ number: UInt32, _ payload: UnsafeRawBufferPointer, _ context: UnsafeMutableRawPointer,
            _ take: sd_bus_message_handler_t
        ) throws {
            let call = try makeCall(number, payload)
            defer { sd_bus_message_unref(call) }
            try Self.check("sd_bus_call_async", sd_bus_call_async(bus, nil, call, take, context, .max))
        }

        private func makeCall(_ number: UInt32, _ payload: UnsafeRawBufferPointer) throws -> OpaquePointer? {
            var call: OpaquePointer?
            var number = number
            try Self.check(
                "sd_bus_message_new_method_call",
                sd_bus_message_new_method_call(bus, &call, nil, "/bench", "bench.Echo", "Take"))
            try Self.check("sd_bus_message_append_basic", sd_bus_message_append_basic(call, Self.number, &number))
            try Self.append(payload, to: call)
            return call
        }

        func reply(to call: OpaquePointer?, _ payload: UnsafeRawBufferPointer) throws {
            var reply: OpaquePointer?
            defer { sd_bus_message_unref(reply) }
            try Self.check("sd_bus_message_new_method_return", sd_bus_message_new_method_return(call, &reply))
            try Self.append(payload, to: reply)
            try Self.check("sd_bus_send", sd_bus_send(bus, reply, nil))
        }

        /// A call begins with its number.
        static func number(_ call: OpaquePointer?) throws -> UInt32 {
            var number: UInt32 = 0
            try check("sd_bus_message_read_basic", sd_bus_message_read_basic(call, Self.number, &number))
            return number
        }

        /// What a call has after its number, and a reply by itself.
        static func payload(_ message: OpaquePointer?) throws -> UnsafeRawBufferPointer {
            guard sd_bus_message_is_method_error(message, nil) == 0 else { throw BenchError.noAnswer }
            var (start, size): (UnsafeRawPointer?, Int) = (nil, 0)
            try check("sd_bus_message_read_array", sd_bus_message_read_array(message, byte, &start, &size))
            return UnsafeRawBufferPointer(start: start, count: size)
        }

        private static func append(_ payload: UnsafeRawBufferPointer, to message: OpaquePointer?) throws {
            try check(
                "sd_bus_message_append_array",
                sd_bus_message_append_array(message, byte, payload.baseAddress, payload.count))
        }

        private static let number = CChar(UInt8(ascii: "u"))
        private static let byte = CChar(UInt8(ascii: "y"))

        @discardableResult
        private static func check(_ call: String, _ result: Int32) throws -> Int32 {
            guard result >= 0 else { throw BenchError.system(call, errno: -result) }
            return result
        }
    }
#endif
