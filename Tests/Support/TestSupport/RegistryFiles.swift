/// What is in a registry directory, and in its folder of names, but for that.
package func registryFiles(in path: String) -> [String] {
    let (own, names) = (entries(of: path) ?? [], entries(of: path + "/names") ?? [])
    return (own.filter { $0 != "names" } + names.map { "names/" + $0 }).sorted()
}
