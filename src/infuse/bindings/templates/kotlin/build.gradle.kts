plugins {
  id("com.android.library")
  id("org.jetbrains.kotlin.android")
}

android {
  namespace = "@NAME@"
  compileSdk = 34
  defaultConfig {
    minSdk = 28
    ndk { abiFilters += "@ABI@" }
  }
  compileOptions {
    sourceCompatibility = JavaVersion.VERSION_11
    targetCompatibility = JavaVersion.VERSION_11
  }
  kotlinOptions { jvmTarget = "11" }
  androidResources { noCompress += "bin" }
}
