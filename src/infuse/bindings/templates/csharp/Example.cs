using System;
using System.IO;
using System.Linq;
using System.Runtime.InteropServices;
using @SPACE@;

/// <summary>Runs the model: Example [FOLDER [SIZE...]]. FOLDER has weights.bin, and may have inputs, the elements of input
/// number i in input[i].bin (zeros without it; an optional input is absent then); outputs are written beside them. The
/// sizes are those of symbols: @SYMBOL_NAMES@.</summary>
public static class Example
{
    public static int Main(string[] arguments)
    {
        string folder = arguments.Length > 0 ? arguments[0] : ".";
        var symbols = new long[@SYMBOLS@];
        for (int i = 0; i < symbols.Length; i++)
            symbols[i] = i + 1 < arguments.Length ? long.Parse(arguments[i + 1]) : 2;
        try
        {
            Run(folder, Model.Shapes(symbols));
            return 0;
        }
        catch (ModelException error)
        {
            Console.Error.WriteLine(error.Message);
            return 1;
        }
    }

    private static void Run(string folder, long[][] shapes)
    {
        var inputs = new Inputs();
@READ@
        using (var model = new Model(Path.Combine(folder, "weights.bin")))
        using (var session = model.Session(2))
        {
            Outputs outputs = session.Run(inputs);
@WRITE@
        }
    }

    private static Tensor<T> Read<T>(string folder, int number, long[] shape, bool optional, int width) where T : struct
    {
        string file = Path.Combine(folder, "input" + number + ".bin");
        if (optional && !File.Exists(file)) return null;
        var tensor = Tensor<T>.Zeros(shape);
        if (!File.Exists(file)) return tensor;
        byte[] content = File.ReadAllBytes(file);
        if (tensor.Data is bool[])
            for (int i = 0; i < tensor.Data.Length; i++) ((bool[])(object)tensor.Data)[i] = content[i] != 0;
        else
            Pinned(tensor.Data, address => Marshal.Copy(content, 0, address, tensor.Data.Length * width));
        return tensor;
    }

    private static void Write<T>(string folder, int number, Tensor<T> tensor, int width) where T : struct
    {
        Console.WriteLine("output " + number + ":" + string.Concat(tensor.Shape.Select(size => " " + size)));
        var content = new byte[tensor.Data.Length * width];
        if (tensor.Data is bool[])
            for (int i = 0; i < content.Length; i++) content[i] = (byte)(((bool[])(object)tensor.Data)[i] ? 1 : 0);
        else
            Pinned(tensor.Data, address => Marshal.Copy(address, content, 0, content.Length));
        File.WriteAllBytes(Path.Combine(folder, "output" + number + ".bin"), content);
    }

    private static void Pinned(Array data, Action<IntPtr> action)
    {
        GCHandle handle = GCHandle.Alloc(data, GCHandleType.Pinned);
        if (data.Length > 0) action(handle.AddrOfPinnedObject());
        handle.Free();
    }
}
