// swift-tools-version:5.7
import PackageDescription

let package = Package(
  name: "@MODULE@",
  products: [.library(name: "@MODULE@", targets: ["@MODULE@"])],
  targets: [
    .target(
      name: "C@MODULE@",
      path: "Sources/CModel",
      exclude: ["libmodel.a"],
      linkerSettings: [
        .unsafeFlags(["\(Context.packageDirectory)/Sources/CModel/libmodel.a"]),
        .linkedLibrary("m", .when(platforms: [.linux, .android])),
      ]),
    .target(name: "@MODULE@", dependencies: ["C@MODULE@"]),
    .executableTarget(name: "example", dependencies: ["@MODULE@"]),
  ])
