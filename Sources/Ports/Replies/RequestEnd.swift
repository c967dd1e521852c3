/// What became of a request, for those who monitor its port.
enum RequestEnd {
    case answered
    /// Nobody waits for the reply any more. Another end follows.
    case cancelled
    /// A failure was sent in place of the reply.
    case failed
    /// Dropped without a reply, or refused.
    case unanswered
    /// There were too many: the end will not be seen.
    case forgotten
}
