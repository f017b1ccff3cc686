package @NAME@

import android.content.Context
import java.io.File

/** The model with the weights of the app's assets, which are copied to its files once. */
fun openModel(context: Context): Model {
  val file = File(context.noBackupFilesDir, "@NAME@.bin")
  return try {
    Model.load(file.toPath())
  } catch (error: ModelException) { // not there yet, or of an older version of the app
    val part = File(file.path + ".part")
    context.assets.open("@NAME@.bin").use { from -> part.outputStream().use { from.copyTo(it) } }
    part.renameTo(file)
    Model.load(file.toPath())
  }
}
