using System;
using System.Globalization;
using System.Threading;
using Conduct;

/// <summary>How a session conducts itself where something is wrong, and with several threads: weights wrong_weights.</summary>
public static class Program
{
    private static void Failing(string what, Action call)
    {
        try
        {
            call();
            Console.WriteLine(what + ": nothing failed");
        }
        catch (ModelException error)
        {
            Console.WriteLine(what + ": " + error.Code + " " + error.Message);
        }
        catch (OperationCanceledException)
        {
            Console.WriteLine(what + ": OperationCanceledException");
        }
        catch (ObjectDisposedException error)
        {
            Console.WriteLine(what + ": ObjectDisposedException " + error.ObjectName);
        }
    }

    public static void Main(string[] arguments)
    {
        CultureInfo.CurrentCulture = CultureInfo.InvariantCulture;
        var ones = new float[] { 1, 1, 1, 1, 1, 1, 1, 1 };
        var x = new Tensor<float>(ones, 2, 4);
        Tensor<double> y = new double[] { 10, 10, 10, 10 };
        var three = new Tensor<long>(new long[] { 3 });
        Tensor<long> places = new long[] { 2, 0 };
        Func<Inputs> good = () => new Inputs { X = x, Y = y, Times = three, Places = places };
        var model = new Model(arguments[0]);
        var session = model.Session(2);
        var outputs = session.Run(good());
        Console.WriteLine("run: {0:0.0} {1:0.0} {2:0.0}", outputs.Z.Data[7], outputs.W.Data[3], outputs.Picked.Data[0]);
        Action<string, Action<Inputs>> with = (what, change) =>
        {
            var inputs = good();
            change(inputs);
            Failing(what, () => session.Run(inputs));
        };
        with("formula", i => i.Y = new double[3]);
        with("size", i => i.X = new Tensor<float>(ones, 4, 2));
        with("axes", i => i.X = new Tensor<float>(ones, 8));
        with("elements", i => i.X = new Tensor<float>(new float[7], 2, 4));
        with("shape", i => i.X = ones);
        with("missing", i => i.Y = null);
        with("huge", i => i.X = new Tensor<float>(ones, long.MaxValue, 4));
        with("data", i => i.Places = new long[] { 3 });
        Failing("weights", () => new Model(arguments[1]));
        Failing("content", () => new Model(new byte[5]));
        Failing("absent", () => new Model("/none"));

        var sums = new double[2];
        var threads = new Thread[2];
        for (int i = 0; i < 2; i++)
        {
            int own = i;
            threads[i] = new Thread(() =>
            {
                using (var other = model.Session(1))
                {
                    var reused = new Outputs();
                    for (int k = 0; k < 200; k++) sums[own] += other.Run(good(), reused).Z.Data[0];
                }
            });
            threads[i].Start();
        }
        foreach (var thread in threads) thread.Join();
        Console.WriteLine("threads: {0:0.0} {1:0.0}", sums[0], sums[1]);

        var lasting = good();
        lasting.Times = new Tensor<long>(new long[] { 1L << 40 });
        var stopper = new Thread(() =>
        {
            Thread.Sleep(100);
            session.Cancel();
        });
        stopper.Start();
        Failing("cancelled", () => session.Run(lasting));
        stopper.Join();
        session.Cancel(false);
        Failing("token", () => session.Run(lasting, new CancellationTokenSource(100).Token));
        Console.WriteLine("again: {0:0.0}", session.Run(good()).Z.Data[0]);
        Console.WriteLine("halves: {0:0.0000000e+00} {1:0.0000000} {2:x4} {3:x4}", (double)(float)(Float16)1e-7f,
            (double)(float)(BFloat16)3.1415927f, ((Float16)65520f).Bits, ((BFloat16)(-0f)).Bits);
        model.Dispose();
        Failing("model closed", () => model.Session(1));
        session.Dispose();
        session.Dispose();
        Failing("closed", () => session.Run(good()));
    }
}
