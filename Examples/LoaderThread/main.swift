import RunLoops

// A thread that loads, and delegates that are told on their own threads, as NSURLConnection did it: what the loader's
// thread has read comes as messages to a port of the delegate's loop. No delegate needs a lock.

let reader = Reader(try Loader())
print("Main: I start two loads, and run my loop. A thread reads for both.")
reader.start("news")
reader.start("weather")
try ThreadRunLoop.main.run()
print("Main: I am done.")
