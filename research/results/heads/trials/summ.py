import csv,collections,statistics as st
for fn in ('final_choose.csv','final_confirm.csv'):
    g=collections.defaultdict(dict)
    for r in csv.reader(open(fn)):
        d=dict(x.split('=') for x in r[3:] if '=' in x and x.split('=')[0] in('cor','corN','new','newN','cpu','rmseN')and len(x.split('='))==2); g[r[0],r[2]][r[1]]=d
    print(fn)
    for (w,n),v in sorted(g.items()):
        c=[float(x['corN']) for x in v.values()]; b=g.get((w,'base'),{}); dl=[float(v[s]['corN'])-float(b[s]['corN']) for s in v if s in b]
        nn=[float(x['newN']) for x in v.values() if 'newN' in x]
        print(f"{w:5s}{n:11s} n={len(c)} {st.mean(c):.3f}±{st.stdev(c) if len(c)>1 else 0:.3f} new {st.mean(nn) if nn else 0:.3f} min d-base {min(dl) if dl else 0:+.3f} cpu {st.mean(float(x['cpu']) for x in v.values()):.1f}")
