import sys; from heads import *
from res import V
names=sys.argv[1].split(','); worlds=sys.argv[2].split(','); seeds=[int(s) for s in sys.argv[3].split(',')]; out=sys.argv[4] if len(sys.argv)>4 else 'res.csv'
import csv,collections
agg=collections.defaultdict(list)
for wn in worlds:
    for s in seeds:
        w=WORLDS[wn](s); cache={}
        for n in names:
            d=prep(w,s); t0=time.process_time(); f,fn,info=V[n](w,d,s,cache); cpu=time.process_time()-t0
            o=measure(f,w,d.m.numpy(),fn); o['cpu']=cpu; agg[wn,n].append(o)
            with open(out,'a') as fh: csv.writer(fh).writerow([wn,s,n]+[f'{k}={v:.4f}' for k,v in o.items()]+[info])
for (wn,n),os_ in agg.items():
    print(f'{wn:5s} {n:28s}',' '.join(f"{k} {np.mean([o[k] for o in os_]):.3f}"+(f"±{np.std([o[k] for o in os_],ddof=1):.3f}" if k in('corN',) and len(os_)>1 else '') for k in os_[0]),flush=True)
