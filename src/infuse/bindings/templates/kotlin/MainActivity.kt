// An app that runs the model on zeros and shows how long that takes.
package @NAME@.example

import android.app.Activity
import android.os.Bundle
import android.widget.TextView
import @NAME@.Inputs
import @NAME@.Model
import @NAME@.Tensor
import @NAME@.openModel
import kotlin.concurrent.thread

class MainActivity : Activity() {
  override fun onCreate(state: Bundle?) {
    super.onCreate(state)
    val view = TextView(this)
    setContentView(view)
    thread { // a run blocks its thread
      val text = try { measured() } catch (error: RuntimeException) { error.message }
      runOnUiThread { view.text = text }
    }
  }

  private fun measured(): String {
    val shapes = Model.shapes(*LongArray(@SYMBOLS@) { 1 })
    val inputs = Inputs()
@READ@
    openModel(this).use { model ->
      model.session(0).use { session ->
        val outputs = session.run(inputs)
        val start = System.nanoTime()
        session.run(inputs, outputs)
        return "${(System.nanoTime() - start) / 1e6} ms"
      }
    }
  }
}
